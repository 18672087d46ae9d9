"""Requests take turns: what one client asks does not keep another waiting."""

import asyncio
import threading

from stepscope.serve.tasks import AT_ONCE, OF_A_CLIENT, Tasks


def test_a_client_with_many_requests_leaves_room_for_another():
    hold = threading.Event()
    ran: list[str] = []

    def work(name):
        ran.append(name)
        assert hold.wait(20)

    async def ask():
        tasks = Tasks(20)
        many = [asyncio.ensure_future(tasks.do(lambda: work("many"), asyncio.sleep(60), "many")) for _ in range(20)]
        while len(ran) < OF_A_CLIENT:
            await asyncio.sleep(0)
        assert await tasks.do(lambda: "answer", asyncio.sleep(60), "single") == "answer"
        assert ran == ["many"] * OF_A_CLIENT
        hold.set()
        await asyncio.gather(*many)

    asyncio.run(ask())
    assert len(ran) == 20


def test_clients_take_turns():
    order: list[str] = []
    hold = threading.Event()

    async def ask():
        tasks = Tasks(20)
        blocked = [tasks.do(lambda: hold.wait(20), asyncio.sleep(60), f"blocks {number}") for number in range(AT_ONCE)]
        waiting = [asyncio.ensure_future(one) for one in blocked]
        await asyncio.sleep(0)
        waiting += [
            asyncio.ensure_future(tasks.do(lambda client=client: order.append(client), asyncio.sleep(60), client))
            for client in "aaabbc"
        ]
        await asyncio.sleep(0)
        hold.set()
        await asyncio.gather(*waiting)

    asyncio.run(ask())
    assert sorted(order[:3]) == ["a", "b", "c"]
    assert sorted(order) == list("aaabbc")


def test_a_request_that_nobody_waits_for_takes_no_turn():
    hold = threading.Event()

    async def ask():
        tasks = Tasks(20)
        blocked = [
            asyncio.ensure_future(tasks.do(lambda: hold.wait(20), asyncio.sleep(60), "a")) for _ in range(OF_A_CLIENT)
        ]
        await asyncio.sleep(0)
        left = asyncio.ensure_future(tasks.do(lambda: "never", asyncio.sleep(60), "a"))
        await asyncio.sleep(0)
        left.cancel()
        last = asyncio.ensure_future(tasks.do(lambda: "last", asyncio.sleep(60), "a"))
        await asyncio.sleep(0)
        hold.set()
        assert await last == "last"
        await asyncio.gather(*blocked)

    asyncio.run(ask())
