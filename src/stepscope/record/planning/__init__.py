"""What can be measured in a job: some iterations are watched, and a plan is made of what they ran."""
