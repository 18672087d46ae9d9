"""The servers behind `stepscope view` and `stepscope mcp`: the page, and answers to what it and agents ask.

Starlette and uvicorn are imported here and nowhere else. `policy` says who may ask, `asking` asks
recordings, `tasks` ends what takes too long, `app` has the addresses, `running` the process. `agent_server` answers agents with what
`agent_tools` declares.
"""
