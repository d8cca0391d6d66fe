"""Guessing tokens from what a conversation holds."""

from hypothesis import given
from hypothesis import strategies as st

from localgraphrag.llm.drafts import LONGEST, guess, most_rows, rows_each

TOKENS = st.lists(st.integers(0, 3), max_size=40)


@given(TOKENS, st.integers(0, 5))
def test_a_guess_is_what_followed_the_longest_match(tokens, most):
    found = guess(tokens, tokens, most)
    ends = [at for at in range(1, len(tokens)) if tokens[at - 1] == tokens[-1]]  # where a match would end
    if not ends:
        assert found == []
        return

    def length(end):
        return next((n for n in range(LONGEST, 0, -1) if n <= end and tokens[end - n : end] == tokens[-n:]), 0)

    best = max(ends, key=lambda end: (length(end), end))
    assert found == tokens[best : best + most]


def test_tokens_are_compared_by_their_keys_and_given_as_they_are():
    assert guess([1, 2, 3, 1], [11, 12, 13, 21], 2) == [12, 13]


@given(st.integers(1, 64))
def test_a_step_has_rows_for_all_and_few_guesses(active):
    rows = rows_each(active)
    assert 1 <= rows <= 4 and active * rows <= most_rows(active)
