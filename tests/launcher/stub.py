"""A cluster whose nodes only say that they are there: what the launcher does with processes, without Kafka in them.

`python -m tests.launcher.stub DIR [--json] [--no-restart] [NAME=VALUE ...]` runs one of three nodes. What a node does
is in its server.properties, under names that are none of Kafka's:

    stub.fails=2        node 2 ends at once, with status 7
    stub.says=word      each node says that
    stub.deaf=1         node 1 does not stop when told: it has to be killed
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from pathlib import Path

from kcli.broker.process.log_lines import set_up_logging
from kcli.launcher.directory import ClusterDirectory, ClusterRequest
from kcli.launcher.launch import launch
from kcli.launcher.plan import bootstrap
from kcli.log.log_directory import read_properties

FAILED = 7
TELLS_S = 0.15
"""What the launcher told the node, which the node prints at its end."""


def main(node: int, config: Path, channel: socket.socket) -> int:
    """A node."""
    told = read_properties(config)
    if told.get("stub.fails") == str(node):
        return FAILED
    if told.get("stub.deaf") == str(node):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    else:
        signal.signal(signal.SIGALRM, lambda *_: os._exit(0))
        signal.signal(signal.SIGTERM, lambda *_: signal.setitimer(signal.ITIMER_REAL, TELLS_S))
    print(f"node {node} says {told.get('stub.says', 'nothing')}", flush=True)
    channel.sendall(b'{"listening":true}\n{"ready":true}\n')
    received = channel.makefile("r")
    for line in received:
        print(f"told {line.strip()}", file=sys.stderr, flush=True)
        if json.loads(line).get("stop") == "broker":
            leads = "true" if node == 2 else "false"
            channel.sendall(b'{"broker_stopped":true,"leads":%s}\n' % leads.encode())
    return 0


def ready(cluster: ClusterDirectory) -> None:
    """What `kcli serve` does."""
    print(f"ready {bootstrap(cluster.plans)} {cluster.cluster_id}", flush=True)


if __name__ == "__main__":
    directory, *arguments = sys.argv[1:]
    json_lines, restart = "--json" in arguments, "--no-restart" not in arguments
    options = dict(each.split("=", 1) for each in arguments if "=" in each)
    set_up_logging(json_lines=json_lines, verbose=False)
    request = ClusterRequest(3, 0, ("127.0.0.1", 0), options)
    launch(Path(directory), request, ready, restart=restart, json_lines=json_lines, main=main)
