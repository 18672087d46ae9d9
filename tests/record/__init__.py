"""Tests of recording from inside a training job."""
