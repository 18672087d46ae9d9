"""Answers to words and pages. Computes nothing."""
