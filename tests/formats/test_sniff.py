import pytest

from stepscope.formats.sniff import advice, what_is


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        (b"", "empty file"), (bytes(100), "file of zeros"),
        (b'{"schema": "1.1.1-chakra.0.0.4", "pid": 7, "nodes": [', "PyTorch execution trace"),
        (b'{\n  "schema": "1.0.1", "nodes": [', "PyTorch execution trace"), (b'{"epochs": 3}', "json"),
        (b"[1, 2, 3]", "json"), (b'\xef\xbb\xbf {"schemaVersion": 1, "traceEvents": [', "json"),
        (b'{"cells": [{"cell_type": "code"', "Jupyter notebook"),
        (b"SQLite format 3\x00\x10\x00", "SQLite database"), (b"NVR\x00\x02\x00", "Nsight Compute report"),
        (b"\x89PNG\r\n\x1a\n\x00", "picture"), (b"\xff\xd8\xff\xe0\x00\x10JFIF", "picture"),
        (b"RIFF\x00\x01\x00\x00WEBPVP8 ", "picture"), (b"%PDF-1.7", "PDF document"),
        (b"PAR1\x15\x04", "Parquet file"), (b"\x80\x04\x95\x19\x00}\x94(\x8c\x05state\x94", "pickle"),
        (b"<!DOCTYPE html><html>", "HTML or XML page"), (b"  <html lang=en>", "HTML or XML page"),
        (b'<?xml version="1.0"?>', "HTML or XML page"), (b"[Unit]\nDescription=Daily apt download\n", "text"),
        (b"[DEFAULT]\r\nkey = [1]\n", "text"), (b"[null]", "json"), (b"[]", "json"),
        (b"see the wiki for the second run\n", "text"), ("größe\n".encode(), "text"),
        (b'"Kernel","Module","Op"\n"gemm","fc","mm"\n', "CSV table"), (b"\xff\xfe{\x00", "UTF-16 text"),
        (b"PK\x03\x04", "zip archive"), (b"\x0a\x04\x08\x01\x10\x02\x0a\x03abc\x0a\x02xy", "Perfetto trace"),
        (b"\x01\x02\x03\xf0\x00\x00", "unknown binary file"),
    ],
)  # fmt: skip
def test_file_is_named_for_what_it_holds(head, kind):
    assert what_is(head) == kind
    assert advice(kind)
    assert "\n" not in advice(kind)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("report.nsys-rep", "Nsight Systems report"), ("REPORT.QDREP", "Nsight Systems report"),
        ("report.qdstrm", "unfinished Nsight Systems recording"), ("a.pftrace", "Perfetto trace"),
    ],
)  # fmt: skip
def test_name_is_asked_only_where_the_bytes_say_nothing(name, kind):
    assert what_is(b"\x01\x02\x03\xf0\x00\x00", name) == kind
    assert what_is(b"SQLite format 3\x00", name) == "SQLite database"
    assert what_is(b'{"epochs": 3}', name) == "json"


def test_nsight_systems_report_says_how_to_convert_it():
    command = "nsys export --type sqlite -o report.sqlite FILE"
    assert command in advice("Nsight Systems report")
    assert command in advice("unfinished Nsight Systems recording")
