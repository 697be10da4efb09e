"""Two processes, one hop: a client and a relay talk over a socket pair in Tor's relay cells.

Run it: python -m examples.two_nodes
"""

import argparse
import os
import socket
from multiprocessing import Process

from cellcrypt.onion import PAYLOAD_LEN, Circuit, ClientLayer, HopKeys, RelayCell, RelayLayer, kdf_tor

DATA = 2


def relay(link: socket.socket, secret: bytes) -> None:
    layer = RelayLayer(HopKeys.from_key_material(kdf_tor(secret, 92), "kdf-tor"))
    payload = bytearray(link.recv(PAYLOAD_LEN, socket.MSG_WAITALL))
    if layer.forward(payload) is None:
        raise SystemExit("the cell is for a relay farther on, and there is none")
    question = RelayCell.parse(payload)
    answer = RelayCell(DATA, question.stream_id, question.data.upper()).pack()
    layer.originate(answer)
    link.sendall(answer)


def main() -> None:
    argparse.ArgumentParser(
        "python -m examples.two_nodes", description="A client and a relay in two processes."
    ).parse_args()
    secret = os.urandom(40)  # two halves of 20 bytes, which CREATE_FAST would have exchanged
    here, there = socket.socketpair()
    with here, there:
        node = Process(target=relay, args=(there, secret))
        node.start()
        circuit = Circuit([ClientLayer(HopKeys.from_key_material(kdf_tor(secret, 92), "kdf-tor"))])
        payload = RelayCell(DATA, stream_id=1, data=b"hello, hop").pack()
        circuit.send(payload)
        here.sendall(payload)
        there.close()  # the relay has its own end: ours would hide that it ended
        answer = bytearray(here.recv(PAYLOAD_LEN, socket.MSG_WAITALL))
        hop, _ = circuit.receive(answer)
        print(f"hop {hop} says: {RelayCell.parse(answer).data.decode()}")
        node.join()


if __name__ == "__main__":
    main()
