"""What several questions compute alike: intervals, charging of work, shares of time. Tables in, tables out."""
