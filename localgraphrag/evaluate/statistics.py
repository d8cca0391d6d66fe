"""The sums behind verdicts and claims: win rates, how sure they are, and how many different things are said."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

CONFIDENCE = 0.95

_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"
# Where a script puts no spaces between words, each character with its marks is one. Vowel signs, which `\w` does not
# count as letters, belong to their word.
_MARK = "".join(chr(c) for c in range(0x300, 0x10000) if unicodedata.category(chr(c)) in ("Mn", "Mc"))
_WORD = re.compile(rf"[{_UNSPACED}][{_MARK}]*|(?:(?![{_UNSPACED}])[^\W_]|[{_MARK}])+")


@dataclass(frozen=True)
class Rate:
    """A share from 0 to 1, and its 95 % interval over questions."""

    rate: float
    low: float
    high: float


def win_rate(scores: Sequence[float]) -> Rate:
    """The mean of one score per question: 1 a win, 0 a loss, a tie a half.

    The interval is Wilson's for so many questions (E. B. Wilson, JASA 22, 1927; statsmodels). Scores between 0 and 1
    vary less than wins and losses do, so it is wide rather than narrow; and unlike a bootstrap it does not shrink to
    nothing when a few questions all say the same. Without a question it is everything from 0 to 1.

    >>> win_rate([1, 1, 0.5, 1]).rate, win_rate([])
    (0.875, Rate(rate=0.5, low=0.0, high=1.0))
    """
    from statsmodels.stats.proportion import proportion_confint

    if not scores:
        return Rate(0.5, 0.0, 1.0)
    low, high = proportion_confint(sum(scores), len(scores), alpha=1 - CONFIDENCE, method="wilson")
    return Rate(fmean(scores), float(max(low, 0)), float(min(high, 1)))


def signed_rank(scores: Sequence[float]) -> float:
    """The p value of Wilcoxon's signed-rank test (scipy) that wins and losses are alike; 1 where nothing was decided.

    `scores` as for `win_rate`; ties are left out, as Wilcoxon did.
    """
    from scipy.stats import wilcoxon

    decided = [2 * score - 1 for score in scores if score != 0.5]
    return float(wilcoxon(decided).pvalue) if decided else 1.0


def holm(p_values: Sequence[float]) -> list[float]:
    """The p values of several tests after Holm's correction (statsmodels), in the order given."""
    from statsmodels.stats.multitest import multipletests

    return [float(p) for p in multipletests(list(p_values), method="holm")[1]] if p_values else []


def words(text: str) -> list[str]:
    """The words of a text in any script, in small letters; single characters where a script has no spaces.

    For Latin letters they are those of rouge-score, whose tokenizer knows no others.

    >>> words("The pier, 1931"), words("桥塌了"), words("नदी में")
    (['the', 'pier', '1931'], ['桥', '塌', '了'], ['नदी', 'में'])
    """
    return _WORD.findall(text.lower())


class _Words:
    def tokenize(self, text: str) -> list[str]:
        return words(text)


def rouge_l(text: str, other: str) -> float:
    """ROUGE-L, the F measure of the longest common subsequence of words (rouge-score), from 0 to 1."""
    return float(_scorer().score(text, other)["rougeL"].fmeasure)


def _scorer() -> Any:
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer(["rougeL"], tokenizer=_Words())


def clusters(texts: Sequence[str], thresholds: Sequence[float]) -> list[int]:
    """How many clusters texts fall into, by complete linkage over 1 - ROUGE-L (scipy; paper 5.2), per threshold.

    In a cluster no two texts are further apart than the threshold.

    >>> clusters(["the pier is closed", "the pier is shut", "bread costs more"], [0.1, 0.5, 1.0])
    [3, 2, 1]
    """
    import numpy as np
    from scipy.cluster.hierarchy import fcluster, linkage

    if len(texts) < 2:
        return [len(texts)] * len(thresholds)
    scorer = _scorer()
    distances = np.array(
        [1 - scorer.score(a, b)["rougeL"].fmeasure for i, a in enumerate(texts) for b in texts[i + 1 :]]
    )
    tree = linkage(distances, method="complete")
    return [len(set(fcluster(tree, t=threshold, criterion="distance").tolist())) for threshold in thresholds]
