from __future__ import annotations

import pytest

from ottla.client.admin.types import ConfigItem
from ottla.config.definitions import ConfigSource, ConfigType, Synonym
from ottla.console.api import configs
from ottla.topics.configs import topic_definitions


def _item(name: str, value: str, source: ConfigSource, *synonyms: Synonym) -> ConfigItem:
    return ConfigItem(name, value, source, ConfigType.LONG, False, False, synonyms)


@pytest.mark.parametrize(
    ("name", "bounds", "choices"),
    [
        ("min.insync.replicas", "at least 1", None),
        ("min.cleanable.dirty.ratio", "0 to 1", None),
        ("preallocate", None, ["true", "false"]),
        (
            "message.timestamp.type", "one of CreateTime, LogAppendTime",
            ["CreateTime", "LogAppendTime"],
        ),
        ("cleanup.policy", "one of compact, delete (or several, with commas)", None),
    ],
)  # fmt: skip
def test_bounds_in_words(name: str, bounds: str | None, choices: list[str] | None) -> None:
    entry = topic_definitions()[name]
    assert (configs.bounds(entry), configs.choices(entry)) == (bounds, choices)


def test_every_config_of_the_catalogue_can_be_told() -> None:
    for entry in topic_definitions().values():
        configs.bounds(entry)
        assert entry.documentation


def test_the_default_is_the_last_synonym() -> None:
    own = Synonym("retention.ms", "1", ConfigSource.TOPIC)
    below = Synonym("log.retention.ms", "2", ConfigSource.DYNAMIC_DEFAULT_BROKER)
    default = Synonym("log.retention.hours", "168", ConfigSource.DEFAULT)
    assert (
        configs.default_of(_item("retention.ms", "1", ConfigSource.TOPIC, own, below, default))
        == "168"
    )
    # Without synonyms it is the catalogue's; of a config that nobody knows there is none.
    assert configs.default_of(_item("retention.ms", "1", ConfigSource.TOPIC)) == "604800000"
    assert configs.default_of(_item("new.in.kafka.9", "1", ConfigSource.TOPIC)) is None


def test_documentation_in_html_becomes_text() -> None:
    told = configs.plain_text(
        "A <code>b</code> &lt;c&gt;.<ul><li>one</li><li>two <script>x()</script>"
    )
    assert told == "A b <c>. one two x()"
    assert configs.plain_text("plain") == "plain"


def test_an_unknown_source_has_words() -> None:
    assert configs.words_of(ConfigSource.UNKNOWN) == "from elsewhere"
