"""Options that change nothing: which they are, and that they are named once."""

import logging

from ottla.spark.unused_options import Unused, announce, find_unused


def test_misspelt_settings_get_the_name_that_was_meant():
    given = {"kafka.sasl.jass.config": "secret", "kafka.linger.ms": "5", "kafka.zzz": "1"}
    unused = find_unused(given, read=(), other_options=())
    assert unused == (("kafka.linger.ms",), ("kafka.sasl.jass.config", "kafka.zzz"))
    assert str(unused) == (
        "without effect here: kafka.linger.ms; unknown to Kafka's clients: "
        "kafka.sasl.jass.config (did you mean kafka.sasl.jaas.config?), kafka.zzz"
    )


def test_what_is_done_in_any_case_is_not_named():
    given = {"kafka.enable.idempotence": "TRUE", "kafka.sasl.login.callback.handler.class": "x"}
    assert find_unused(given, (), ()) == Unused()
    given = {"kafka.enable.idempotence": "false"}
    assert find_unused(given, (), ()).without_effect == ("kafka.enable.idempotence",)


def announced(caplog, unused, **options):
    caplog.clear()
    with caplog.at_level(logging.WARNING, "ottla.spark"):
        announce(unused, options)
    return [record.message for record in caplog.records]


def test_one_warning_in_an_application_for_each_query(caplog, monkeypatch, tmp_path):
    folder = tmp_path / "blockmgr-1"
    folder.mkdir()
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{folder},/elsewhere")
    unused = Unused(("kafka.linger.ms",))
    (message,) = announced(caplog, unused, topic="a")
    assert message == "options of format ottla: without effect here: kafka.linger.ms"
    assert announced(caplog, unused, Topic="a") == [], "the writer of the next micro-batch"
    assert announced(caplog, unused, topic="b") == [message], "another query"
    assert announced(caplog, Unused(), topic="c") == []


def test_where_no_folder_is_shared_each_process_says_it(caplog, monkeypatch, tmp_path):
    unused = Unused(("kafka.linger.ms",))
    for value in ("", str(tmp_path), str(tmp_path / "blockmgr-gone")):
        monkeypatch.setenv("SPARK_LOCAL_DIRS", value)
        assert len(announced(caplog, unused, topic="a")) == 1
        assert len(announced(caplog, unused, topic="a")) == 1
    assert list(tmp_path.iterdir()) == [], "nothing is left behind in folders of others"
