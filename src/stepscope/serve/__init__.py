"""The servers behind `stepscope view` and `stepscope mcp`: they serve the page, and answer the page and agents.

Only this package imports Starlette and uvicorn. `policy` decides who may ask, `asking` asks recordings, `tasks` stops
what takes too long, `app` has the addresses, `running` the process. `agent_server` gives agents the tools of
`agent_tools`.
"""
