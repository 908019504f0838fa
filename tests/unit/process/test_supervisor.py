"""What `ottla up` writes for its brokers is what they read."""

from __future__ import annotations

from pathlib import Path

from ottla.config.broker import BrokerConfig
from ottla.process import supervisor


def test_config_files_hold_any_path(tmp_path: Path) -> None:
    data = tmp_path / "a b\\#é=1"
    options = supervisor.UpOptions(
        brokers=2,
        port=9092,
        zookeeper_port=2181,
        data=data,
        overrides={"broker.rack": " r\\n:1 "},
    )
    supervisor._prepare_folders(options)
    for broker_id in range(2):
        config = BrokerConfig.from_file(supervisor.config_path(data, broker_id))
        assert config.broker_id == broker_id
        wanted = supervisor.broker_properties(options, broker_id)
        assert [str(path) for path in config.log_dirs] == [wanted["log.dirs"]]
        assert config.value("broker.rack") == "r\\n:1"
