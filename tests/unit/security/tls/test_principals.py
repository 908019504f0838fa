"""`ssl.principal.mapping.rules`: the cases of KIP-371, and Kafka's texts for what is none."""

from __future__ import annotations

import pytest

from ottla.config.definitions import ConfigError
from ottla.security.tls.principals import NoMatchingRule, PrincipalMapper

RULES = (
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/, "
    "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L, "
    "RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U, "
    "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U, "
    "DEFAULT"
)


@pytest.mark.parametrize(
    ("name", "principal"),
    [
        ("CN=Duke,OU=ServiceUsers,O=Org,C=US", "Duke"),
        ("CN=duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
        ("cn=duke,ou=sme,dc=mycp,dc=com", "DUKE@SME"),
        ("cN=duke,OU=JavaSoft,O=Sun Microsystems", "DUKE"),
        ("OU=JavaSoft,O=Sun Microsystems", "OU=JavaSoft,O=Sun Microsystems"),
    ],
)
def test_the_first_rule_that_fits_wins(name: str, principal: str) -> None:
    assert PrincipalMapper(RULES).principal(name) == f"User:{principal}"


@pytest.mark.parametrize(
    ("rules", "name", "principal"),
    [
        ("DEFAULT", "CN=a", "CN=a"),
        ("  DEFAULT  ", "CN=a", "CN=a"),
        ("RULE:^CN=(.*)$/$1@$4/", "CN=a", "a@$4"),
        ("RULE:^CN=(.*)$/$12/", "CN=a", "a2"),
        ("RULE:^CN=(.*)$/$0/", "CN=a", "CN=a"),
        ("RULE:^CN=(.*)$/\\$1/", "CN=a", "$1"),
        ("RULE:^CN=(.*)$/x/L,DEFAULT", "O=a", "O=a"),
        (",,RULE:^CN=(.*)$/$1/", "CN=a", "a"),
        (r"RULE:^CN=(\w+)\/(\w+)$/$2/", "CN=a/b", "b"),
    ],
)
def test_references_and_empty_rules(rules: str, name: str, principal: str) -> None:
    assert PrincipalMapper(rules).principal(name) == f"User:{principal}"


def test_a_name_that_no_rule_fits_is_nobody() -> None:
    with pytest.raises(NoMatchingRule, match="No rules apply to O=x, rules"):
        PrincipalMapper("RULE:^CN=(.*)$/$1/").principal("O=x")


@pytest.mark.parametrize("rules", ["RULE:^(/$1/", "RULE:^*/x/", r"RULE:\p{Lu}/x/"])
def test_patterns_that_are_none_are_refused_in_words(rules: str) -> None:
    with pytest.raises(ConfigError, match="Invalid rule"):
        PrincipalMapper(rules)


@pytest.mark.parametrize(
    "rules",
    ["default", "DEFAUL", "DEFAULT/L", "DEFAULT/U", "rule:^x/y/",
     "RULE:CN=(.*?),OU=ServiceUsers.*/$1", "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/LU"],
)  # fmt: skip
def test_words_that_are_no_rule_are_refused_as_kafka_refuses_them(rules: str) -> None:
    with pytest.raises(ConfigError, match=r"Invalid rule: `.*`, unmatched substring: `"):
        PrincipalMapper(rules)
