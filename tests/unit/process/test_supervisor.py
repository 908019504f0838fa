"""What `ottla up` writes for its brokers is what they read."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from ottla.config.broker import BrokerConfig
from ottla.errors import OttlaError
from ottla.process import supervisor
from ottla.process.data_folder import config_path
from ottla.process.up_options import UpOptions, broker_properties


def test_config_files_hold_any_path(tmp_path: Path) -> None:
    data = tmp_path / "a b\\#é=1"
    options = UpOptions(
        brokers=2,
        port=9092,
        zookeeper_port=2181,
        data=data,
        overrides={"broker.rack": " r\\n:1 "},
    )
    supervisor.prepare_folders(options)
    for broker_id in range(2):
        config = BrokerConfig.from_file(config_path(data, broker_id))
        assert config.broker_id == broker_id
        wanted = broker_properties(options, broker_id)
        assert [str(path) for path in config.log_dirs] == [wanted["log.dirs"]]
        assert config.value("broker.rack") == "r\\n:1"


def test_a_comma_in_the_folder_is_refused(tmp_path: Path) -> None:
    data = tmp_path / "a,b"
    with pytest.raises(OttlaError, match="has a comma"):
        supervisor.run(UpOptions(data=data))
    assert not data.exists()


def test_what_is_said_to_a_terminal_that_is_gone_does_no_harm() -> None:
    class Gone(io.StringIO):
        def write(self, _: str) -> int:
            raise OSError(5, "Input/output error")

    supervisor.say("stopping", Gone())
