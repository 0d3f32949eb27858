"""What an Envoy Gateway does otherwise than our own proxy, for the person who reads the plan (read in its sources, v1.9, 2026-08)."""

from __future__ import annotations

NOTES = (
    "the Envoy Gateway reads every valid key in clear from the Secret gateway-clients; our own proxy gets hashes alone",
    "calls that are no listed route are answered 404 before any key is looked at, and refusals are in Envoy's words, not the API's",
    "of two different keys in one call the one in Authorization counts; the server hears the key's id (chat_2), not the consumer's name",
    "query strings and headers that nobody lists reach the servers; of claims of identity the known ones are taken out",
    "sizes of bodies, rates, the access log and how proxies leave are set up with the Gateway, not here",
)
