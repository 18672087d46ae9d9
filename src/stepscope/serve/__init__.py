"""The server behind `stepscope view`: the page, and answers to what it asks.

Starlette and uvicorn are imported here and nowhere else. `policy` says who may ask, `asking` asks
recordings, `tasks` ends what takes too long, `app` has the addresses, `running` the process.
"""
