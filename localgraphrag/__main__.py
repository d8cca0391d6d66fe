"""`python -m localgraphrag` is `localgraphrag`."""

from localgraphrag.cli import main

main()
