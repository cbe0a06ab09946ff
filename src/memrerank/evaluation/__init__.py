"""Metrics, significance and reports over Rankings."""
