"""Comparisons to Choices to Rankings: setwise judges and the algorithms that aggregate them."""
