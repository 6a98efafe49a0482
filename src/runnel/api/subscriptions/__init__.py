"""Subscriptions: the reserved API of Durable Streams at `/v1/stream/__ds/…`.

asks.py      what a request asks for, validated; which addresses a webhook may have (pure)
patterns.py  which streams a pattern fits (pure)
signing.py   keys of the cluster, signatures of webhooks, tokens of wakes
post.py      one POST to somebody's webhook
waker.py     notices what is new, wakes, delivers, retries, lets leases lapse; on one node of the cluster
desk.py      what workers do: claim, acknowledge, release
routes.py    the addresses
"""
