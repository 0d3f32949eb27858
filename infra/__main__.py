"""The program that both engines run: load, compose, export."""

from infra.compose import compose
from infra.registering import quiet_collector
from infra.settings import load

with quiet_collector():
    compose(load()).export()
