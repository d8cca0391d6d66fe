"""The paper's evaluation: answers under several conditions, measured (sections 3 to 5)."""
