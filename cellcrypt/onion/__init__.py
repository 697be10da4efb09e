"""The layers of a circuit: relay encryption on top of CellCipher, for clients and for relays.

The public names; no logic lives here. Keys in, layers out:

    keys = HopKeys.from_key_material(kdf_tor(secret, 92), "kdf-tor")
    circuit = Circuit([ClientLayer(keys)])       # the client
    relay = RelayLayer(keys)                     # the hop

    payload = RelayCell(command=2, stream_id=1, data=b"hello").pack()
    tag = circuit.send(payload)                  # now it can go out
    relay.forward(payload) == tag                # recognized: RelayCell.parse(payload) reads it
"""

from __future__ import annotations

from . import cgo as _cgo  # noqa: F401  (registers its scheme)
from . import tor1 as _tor1  # noqa: F401  (registers its schemes)
from .cell import CGO, CRYPTO_15, STREAM_COMMANDS, TOR1, RelayCell, RelayLayout
from .circuit import Circuit
from .errors import NoSuchHop, RelayCellError, UnrecognizedCell
from .keys import LAYOUTS, HopKeys, KeyLayout, hs_ntor_expand, kdf_tor, ntor_expand
from .layers import PAYLOAD_LEN, RELAY, RELAY_EARLY, ClientLayer, RelayLayer

__all__ = [
    "CGO",
    "CRYPTO_15",
    "LAYOUTS",
    "PAYLOAD_LEN",
    "RELAY",
    "RELAY_EARLY",
    "STREAM_COMMANDS",
    "TOR1",
    "Circuit",
    "ClientLayer",
    "HopKeys",
    "KeyLayout",
    "NoSuchHop",
    "RelayCell",
    "RelayCellError",
    "RelayLayer",
    "RelayLayout",
    "UnrecognizedCell",
    "hs_ntor_expand",
    "kdf_tor",
    "ntor_expand",
]
