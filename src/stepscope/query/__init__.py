"""Declares questions, narrows the tables to what was asked for, and returns answers as tables."""
