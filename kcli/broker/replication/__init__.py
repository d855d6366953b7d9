"""Replication between brokers: fetching from leaders, and handling the Fetches of followers.

What a leader knows of its followers, and the high watermark, are in kcli/broker/partition/leadership.py.

manager                       the leaders that this broker follows; the ISR changes that it sends to the controller
fetcher, following            the Fetches to one leader, and how their responses are applied
serving, nudges               the leader's response to a follower's Fetch
isr_changes                   AlterPartition requests to the controller
selector, throttle            the preferred read replica of a consumer; replication quotas
"""
