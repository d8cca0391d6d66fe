"""What notebooks show: views of an index, an answer and its sources."""
