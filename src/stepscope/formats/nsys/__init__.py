"""Exports of Nsight Systems: SQLite files of any schema version from 2019 on."""
