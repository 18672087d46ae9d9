import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

from stepscope.base.environment import SUSPECT, is_secret, may_store_variable, without_secrets

SECRET = "s3cr3t-of-the-job"  # noqa: S105  # what must be nowhere
KEPT = {"NCCL_ALGO": "Ring", "CUDA_VISIBLE_DEVICES": "0,1", "SLURM_PROCID": "3"}
DROPPED = {"HF_TOKEN": SECRET, "HOME": SECRET, "MY_SETTING": SECRET, "NCCL_AUTH_TOKEN": SECRET}
ENVIRONMENT = KEPT | DROPPED


@pytest.mark.parametrize(
    "name",
    [
        "HF_TOKEN", "apiKey", "db.password", "AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "wandb_api_key",
        "WANDB_KEY", "--hub-key", "hubKey", "key", "API KEY", "sshkey", "GITHUBTOKEN", "Authorization", "secrets",
        "client-secret", "passphrase", "DB_PWD", "session_cookie", "TORCH_TOKEN",
    ],
)  # fmt: skip
def test_names_of_secrets(name: str) -> None:
    assert is_secret(name)
    assert not may_store_variable(name)


@pytest.mark.parametrize(
    "name",
    [
        "tokenizer", "TOKENIZERS_PARALLELISM", "token_count", "keyframes", "rank", "keyword", "newkey", "mykey",
        "other key", "authors",
    ],
)  # fmt: skip
def test_names_that_only_look_like_secrets(name: str) -> None:
    assert not is_secret(name)


@pytest.mark.parametrize(
    "name",
    ["NCCL_DEBUG", "TORCH_LOGS", "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "RANK", "LOCAL_RANK", "SLURM_NTASKS"],
)
def test_variables_that_bear_on_speed_are_kept(name: str) -> None:
    assert may_store_variable(name)
    assert without_secrets({"env": {name: "1"}}) == {"env": {name: "1"}}


@pytest.mark.parametrize(
    "name", ["env", "environ", "ENV", "environment", "process_env", "torchEnv", "envVars", "environment_variables"]
)
@pytest.mark.parametrize(
    ("written", "kept"),
    [
        (ENVIRONMENT, KEPT),
        ([f"{k}={v}" for k, v in ENVIRONMENT.items()], [f"{k}={v}" for k, v in KEPT.items()]),
        ([[k, v] for k, v in ENVIRONMENT.items()], [[k, v] for k, v in KEPT.items()]),
        ([{"name": k, "value": v} for k, v in ENVIRONMENT.items()], [{"name": k, "value": v} for k, v in KEPT.items()]),
        ("\n".join(f"{k}={v}" for k, v in ENVIRONMENT.items()), "\n".join(f"{k}={v}" for k, v in KEPT.items())),
        ("CartPole-v1", "CartPole-v1"),
    ],
)
def test_of_an_environment_in_any_form_the_listed_variables_stay(name: str, written: Any, kept: Any) -> None:
    assert without_secrets({"a": [{name: written}]}) == {"a": [{name: kept}]}


def test_an_environment_under_another_name_is_known_by_what_every_one_has() -> None:
    variables = {"PATH": SECRET, "HOME": SECRET, "SETTING": SECRET, "OMP_NUM_THREADS": "4"}
    assert without_secrets({"process": variables}) == {"process": {"OMP_NUM_THREADS": "4"}}
    lines = [f"{name}={value}" for name, value in variables.items()]
    assert without_secrets({"process": lines}) == {"process": ["OMP_NUM_THREADS=4"]}


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        (f"postgres://user:{SECRET}@host/runs", "postgres://…@host/runs"),
        (f"git+https://{SECRET}@github.com/a/b", "git+https://…@github.com/a/b"),
        ("hf_" + "a1" * 17, "…"), ("as ghp_" + "a1" * 18 + " says", "as … says"), ("AKIA" + "A1" * 8, "…"),
        ("eyJhbGciOiJIUzI1.eyJzdWIiOiIx.c2lnbmVk", "…"), ("s3://bucket/a@b", "s3://bucket/a@b"),
        ("sk-learn", "sk-learn"), ("void gemm<hf_small>", "void gemm<hf_small>"),
    ],
)  # fmt: skip
def test_credentials_go_by_their_shape_whatever_holds_them(said: str, kept: str) -> None:
    assert without_secrets({"run": said}) == {"run": kept}
    assert said == kept or re.search(SUSPECT, json.dumps({"run": said}))


def test_secrets_go_wherever_they_are_and_numbers_stay() -> None:
    said = {
        "hub": {"apiKey": SECRET, "retries": 3, "nested": [{"password": [SECRET]}]},
        "max_tokens": 512,
        "command": ["env", f"HF_TOKEN={SECRET}", f"python --api-key={SECRET} train.py lr=0.1"],
        "settings": [{"name": "DB_PASSWORD", "value": SECRET}],
    }
    assert without_secrets(said) == {
        "hub": {"retries": 3, "nested": [{}]}, "max_tokens": 512,
        "command": ["env", "HF_TOKEN=", "python --api-key= train.py lr=0.1"], "settings": [{"name": "DB_PASSWORD"}],
    }  # fmt: skip


def test_secrets_go_from_the_arguments_of_a_command() -> None:
    said = {"argv": ["train.py", "--hf-token", SECRET, "--lr", "0.1", "--api-key", "--verbose"]}
    said |= {"command": [f"train.py --hf-token {SECRET} --lr 0.1"]}
    assert without_secrets(said) == {
        "argv": ["train.py", "--hf-token", "…", "--lr", "0.1", "--api-key", "…"],
        "command": ["train.py --hf-token … --lr 0.1"],
    }


def test_what_is_nested_without_end_is_cut() -> None:
    deep: Any = SECRET
    for _ in range(5000):
        deep = [deep]
    assert SECRET not in json.dumps(without_secrets(deep))


words = st.sampled_from(
    ["a", "tokens", "HF_TOKEN", "env", "key", "PATH", "HOME", "x=1", "API_KEY=1", "--key", "--key 1"]
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | words,
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(words, inside, max_size=3),
    max_leaves=8,
)


@examples(100)
@given(values)
def test_what_is_not_suspect_is_left_as_it_was_and_cleaning_twice_changes_nothing(said: Any) -> None:
    text = json.dumps(said)
    cleaned = without_secrets(said)
    if not re.search(SUSPECT, text):
        assert cleaned == said
    assert without_secrets(cleaned) == cleaned


@pytest.mark.parametrize("text", ["a" * 200_000, "-a" * 100_000, "--key" + "x" * 200_000, "_" * 200_000 + "="])
def test_long_words_are_looked_through_once(text: str) -> None:
    """From each of their letters to the end of the word it took hours."""
    assert without_secrets(text) == text


def test_a_name_within_a_word_is_known_too() -> None:
    assert without_secrets("1HF_TOKEN=abc .x-api-key=abc") == "1HF_TOKEN= .x-api-key="
    assert without_secrets("x--token abc") == "x--token …"


def test_numbers_of_a_list_are_no_secrets() -> None:
    assert without_secrets({"ranks": (0, 1.5, None, True)}) == {"ranks": [0, 1.5, None, True]}
