"""What had to happen before what: the graph of a job's host threads, streams, waits and collectives.

`events` reads a recording, `host` and `device` say in which order its threads and streams ran and what they waited for,
`graph` joins the recordings of all ranks and knows the path that decided when the job was done, `parts` names what lies
on it, and `change` runs the graph again with other durations.
"""
