"""Computations that several questions share: intervals, charging of work, shares of time. Tables in, tables out."""
