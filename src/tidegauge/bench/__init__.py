"""ML competitions posed, validated and graded offline."""
