"""Finds what can be measured in a job: watches some iterations and makes a plan from what they ran."""
