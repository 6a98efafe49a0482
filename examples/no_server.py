# %% [markdown]
# # Streams without a server
#
# `runnel.Engine` is the whole engine in one Python object: streams on an object store and a ledger. Here both are local
# (files and SQLite), so a folder is all it takes. Give it a bucket and a PostgreSQL instead and several notebooks, jobs and
# brokers share the same streams.
#
# Run the cells of this file one by one in an editor that knows `# %%`, or all of it: `python examples/no_server.py`.

# %%
import asyncio
import tempfile

from runnel import Engine, Record

lake = tempfile.mkdtemp(prefix="runnel-")
places = {"objects": f"file://{lake}/objects", "ledger": f"sqlite://{lake}/ledger.db"}

# %% [markdown]
# A topic has partitions, each of them a stream. What is appended is durable when `append_records` returns, and its offsets
# are known.


# %%
async def write() -> None:
    async with Engine(**places) as engine:
        topic = await engine.topics.create("orders", partitions=2)
        for number in range(3):
            stream = topic.streams[number % 2]
            answer = await engine.append_records(stream, [Record(b"customer-%d" % number, b"one coffee")])
            print(f"order {number} is record {answer.first} of partition {number % 2}")


asyncio.run(write())

# %% [markdown]
# Another engine, now or in a year, finds it all again. `follow=True` waits for what comes.


# %%
async def read() -> None:
    async with Engine(**places) as engine:
        for partition in range(2):
            async for record in engine.records(engine.stream_of("orders", partition)):
                print(
                    f"partition {partition}, offset {record.offset}: {record.key.decode()} wants {record.value.decode()}"
                )


asyncio.run(read())


# %%
async def follow() -> None:
    async with Engine(**places) as engine, asyncio.TaskGroup() as tasks:
        stream = engine.stream_of("orders", 0)
        tasks.create_task(engine.append_records(stream, [Record(b"customer-9", b"the bill")]))
        async for record in engine.records(stream, 2, follow=True):
            print(f"while waiting: {record.key.decode()} wants {record.value.decode()}")
            break


asyncio.run(follow())

# %% [markdown]
# Writers that must not repeat themselves take a number and count their batches. A retry, from this engine or another one,
# gets the offset of the first attempt.

# %%
from runnel.codec.records import build_batch  # noqa: E402


async def retry() -> None:
    async with Engine(**places) as engine:
        stream = engine.stream_of("orders", 1)
        batch = build_batch(
            [Record(None, b"exactly once")], producer=await engine.draw_producer_id(), epoch=0, sequence=0
        )
        first = await engine.append(stream, batch)
        again = await engine.append(stream, batch)
        print(f"sent twice, there once: offset {first.first}, then {again.first} ({again.verdict.name.lower()})")


asyncio.run(retry())
