def test_waits_by_stream_and_by_the_stream_that_was_waited_for(diff):
    wait = {"category": "cuda_sync", "kind": "sync", "name": "Stream Wait Event", "role": "stream for event"}
    of_stream = {**wait, "name": "Stream Sync", "role": "host for stream"}
    diff(
        "synchronizations",
        {
            "device_event": [
                {**wait, "stream": 20, "wait_on_stream": 7, "dur_ns": 2},
                {**wait, "stream": 20, "wait_on_stream": 7, "dur_ns": 4},
                {**wait, "stream": 7, "wait_on_stream": 20, "dur_ns": 1},
                {**of_stream, "stream": 7, "dur_ns": 90},
                {"name": "gemm", "stream": 7, "dur_ns": 500},
            ]
        },
        """
        rank,device,kind,waits,stream,on_stream,count,total_ns,mean_ns,max_ns
        0,0,Stream Sync,host for stream,7,,1,90,90.0,90
        0,0,Stream Wait Event,stream for event,20,7,2,6,3.0,4
        0,0,Stream Wait Event,stream for event,7,20,1,1,1.0,1
        """,
    )


def test_a_wait_for_all_streams_names_none(diff):
    wait = {"category": "cuda_sync", "kind": "sync", "stream": -1}
    diff(
        "synchronizations",
        {
            "device_event": [
                {**wait, "name": "Context Sync", "role": "host for device", "dur_ns": 7},
                {**wait, "name": "Sync", "dur_ns": 2},
            ]
        },
        """
        rank,device,kind,waits,stream,on_stream,count,total_ns,mean_ns,max_ns
        0,0,Context Sync,host for device,,,1,7,7.0,7
        0,0,Sync,,,,1,2,2.0,2
        """,
    )
