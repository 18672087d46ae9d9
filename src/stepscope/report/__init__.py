"""Turns answers into words, pages and pictures. Computes nothing."""
