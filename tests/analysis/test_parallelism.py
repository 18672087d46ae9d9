"""Kinds of parallelism, by what process groups are called and where collectives are launched."""

import pytest

from stepscope.analysis.ranks.parallelism import Parallelism, described, parallelism


@pytest.mark.parametrize(
    ("description", "kind"),
    [
        # Megatron
        ("DATA_PARALLEL_GROUP_WITH_CP", "data+context"),
        ("TENSOR_MODEL_PARALLEL_GROUP", "tensor"),
        ("PIPELINE_MODEL_PARALLEL_GROUP", "pipeline"),
        ("MODEL_PARALLEL_GROUP", "tensor+pipeline"),
        ("EXPERT_MODEL_PARALLEL_GROUP", "expert"),
        ("EXPERT_DATA_PARALLEL_GROUP", "data"),
        ("EXPERT_TENSOR_PARALLEL_GROUP", "tensor"),
        ("EXPERT_TENSOR_AND_MODEL_PARALLEL_GROUP", "tensor+expert"),
        ("CONTEXT_PARALLEL_GROUP", "context"),
        ("TENSOR_AND_DATA_PARALLEL_GROUP", "data+tensor"),
        ("EMBEDDING_GROUP", "pipeline"),
        ("INTRA_DISTRIBUTED_OPTIMIZER_INSTANCE_GROUP", "data"),
        # DeviceMesh and torchtitan
        ("mesh_tp", "tensor"),
        ("mesh_dp_shard", "data"),
        ("mesh_dp_shard_cp", "data+context"),
        ("mesh_dp_shard_mod_ep", "data"),
        ("mesh_ep", "expert"),
        ("mesh_pp", "pipeline"),
        *((name, None) for name in ("default_pg", "undefined", "mesh_dim_0", "stepping", "")),  # tell nothing
    ],
)
def test_descriptions_of_process_groups_are_known(description, kind):
    assert described(description) == kind


def test_a_description_comes_before_where_it_was_launched():
    assert parallelism("mesh_tp", "gradients", "all_reduce", None) == ("tensor", "description")
    assert parallelism("default_pg", "gradients", "all_reduce", None) == ("data", "gradients")


def test_only_what_a_wrapper_itself_does_is_of_it():
    assert parallelism(None, "DDP", "broadcast", None) == ("data", "DDP")
    assert parallelism(None, "DDP", "all_to_all", None) == Parallelism(None, None)
    assert parallelism(None, "FSDP", "all_gather", None) == ("data", "FSDP")
    assert parallelism(None, None, "all_to_all", "MoELayer") == ("expert", "module class")
    assert parallelism(None, None, "all_reduce", "MoELayer") == Parallelism(None, None)
