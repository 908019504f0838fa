"""What the console of `ottla up` is told about its cluster."""

from __future__ import annotations

from ottla.console.settings import ConsoleSettings
from ottla.process.up_options import UpOptions, broker_properties, join_address

# Of the brokers' own properties: how a client gets to them. Never who they are.
_SHARED = (
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
    "ssl.truststore.certificates",
    "ssl.endpoint.identification.algorithm",
)


def console_settings(options: UpOptions) -> ConsoleSettings:
    assert options.console_port is not None
    broker = broker_properties(options, 0)
    properties = {name: broker[name] for name in _SHARED if name in broker}
    protocol = broker["listeners"].partition("://")[0]
    properties["security.protocol"] = protocol
    mechanism = broker.get("sasl.enabled.mechanisms", "").partition(",")[0].strip()
    if mechanism:
        properties["sasl.mechanism"] = mechanism
    return ConsoleSettings(
        bootstrap=options.bootstrap_servers,
        host=options.host,
        port=options.console_port,
        # Without users anybody who reaches this machine could change the cluster, but they reach
        # its brokers as well: `--host` opened both.
        names=(options.advertised_host,),
        properties=properties,
        zookeeper=options.zookeeper_connect,
        # What is behind the brokers' password is for those who have it.
        zookeeper_credentials=None,
    )


def console_address(options: UpOptions) -> str:
    return f"http://{join_address(options.advertised_host, options.console_port or 0)}/"
