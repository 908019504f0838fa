"""The page Rights, on a cluster with users: who may do what, login and logout, --read-only."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from ottla.testing.cluster import ProcessCluster
from ottla.testing.console import running_console
from tests.support.console.browser import (
    PHONE,
    WIDE,
    accessibility_findings,
    sideways_overflow,
    watched_page,
)
from tests.support.console.users import ADMIN, ALICE, cluster_with_users, ottla, password

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ProcessCluster, Path]]:
    with cluster_with_users(tmp_path_factory.mktemp("users")) as both:
        yield both


@pytest.fixture(scope="module")
def guarded(secured: tuple[ProcessCluster, Path]) -> Iterator[str]:
    """A console of the cluster with users."""
    cluster, file = secured
    options = ("--command-config", str(file), "--zookeeper", cluster.zookeeper)
    with running_console(cluster.bootstrap_servers, *options) as address:
        yield address


@pytest.fixture
def login(browser: Browser, guarded: str) -> Iterator[Page]:
    """The login page, of a browser that nobody knows."""
    with watched_page(browser, guarded) as page:
        yield page


def log_in(page: Page, user: str, secret: str | None = None, mechanism: str = "PLAIN") -> None:
    page.get_by_label("User", exact=True).fill(user)
    page.get_by_label("Password").fill(password(user) if secret is None else secret)
    page.get_by_label("Mechanism").select_option(mechanism)
    page.get_by_role("button", name="Log in").click()


def by_command(secured: tuple[ProcessCluster, Path], noun: str, *words: str) -> str:
    cluster, file = secured
    where = ("--bootstrap-server", cluster.bootstrap_servers, "--command-config", str(file))
    return ottla(noun, *where, *words)


def shown_command(page: Page, file: Path) -> list[str]:
    """The words of the one command in the dialog, with the administrator's file."""
    line = page.get_by_role("dialog").locator(".command code").inner_text()
    return [str(file) if word == "client.properties" else word for word in shlex.split(line)]


def test_a_wrong_password_is_said_and_the_right_one_opens(login: Page) -> None:
    login.goto("/rights")
    expect(login.get_by_role("heading", level=1)).to_have_text("Log in")
    assert accessibility_findings(login) == []
    log_in(login, ADMIN, "guessed")
    expect(login.get_by_role("alert").filter(has_text="SASL_AUTHENTICATION_FAILED")).to_be_visible()
    log_in(login, ADMIN)
    expect(login.get_by_role("heading", level=1)).to_have_text("Rights")
    login.get_by_role("button", name="Log out").click()
    expect(login.get_by_role("heading", level=1)).to_have_text("Log in")
    login.reload()
    expect(login.get_by_role("heading", level=1)).to_have_text("Log in")


def test_a_session_that_is_over_asks_again(login: Page) -> None:
    login.goto("/rights")
    log_in(login, ADMIN)
    expect(login.get_by_role("button", name="Add ACLs")).to_be_visible()
    login.context.clear_cookies()
    login.get_by_role("link", name="Quotas").click()
    expect(login.get_by_role("heading", level=1)).to_have_text("Log in")
    log_in(login, ADMIN)
    expect(login.get_by_role("button", name="Set a quota")).to_be_visible()


def test_few_rights_see_few_things(login: Page, secured: tuple[ProcessCluster, Path]) -> None:
    login.goto("/rights")
    log_in(login, ALICE)
    refused = login.get_by_role("alert").filter(has_text="alice may not")
    expect(refused).to_contain_text("it takes Describe on the cluster")
    expect(refused).to_contain_text(
        "--add --allow-principal User:alice --operation Describe --cluster"
    )
    assert login.get_by_role("button", name="Add ACLs").count() == 0
    assert accessibility_findings(login) == []
    login.get_by_role("link", name="Quotas").click()
    expect(refused).to_contain_text("it takes DescribeConfigs on the cluster")
    # Whoever sees the store sees everything.
    login.get_by_role("link", name="Znodes").click()
    expect(refused).to_contain_text("it takes Alter on the cluster")
    # With the one right that is missing, and no more.
    allow = ("--allow-principal", "User:alice", "--operation", "Describe", "--cluster")
    by_command(secured, "acls", "--add", *allow)
    login.get_by_role("link", name="Rights").click()
    expect(login.get_by_role("cell", name="User:alice").first).to_be_visible()
    login.get_by_role("button", name="Add ACLs").click()
    login.get_by_role("dialog").get_by_label("Who", exact=True).fill("User:bob")
    login.get_by_role("dialog").get_by_label("Read", exact=True).check()
    login.get_by_role("dialog").get_by_label("Name", exact=True).fill("orders")
    login.get_by_role("button", name="Continue").click()
    login.get_by_role("button", name="Add", exact=True).click()
    expect(refused).to_contain_text("it takes Alter on the cluster")


def test_acls_are_added_and_removed_as_their_commands_do(
    login: Page, secured: tuple[ProcessCluster, Path]
) -> None:
    login.goto("/rights")
    log_in(login, ADMIN)
    login.get_by_role("button", name="Add ACLs").click()
    login.get_by_role("button", name="Continue").click()
    expect(login.get_by_text("Give a name, or * for all.")).to_be_visible()
    login.get_by_role("dialog").get_by_label("Name", exact=True).fill("pay.")
    login.get_by_role("button", name="Continue").click()
    expect(login.get_by_text("Write it as User:name;")).to_be_visible()
    login.get_by_role("dialog").get_by_label("Who", exact=True).fill("User:carol smith")
    login.get_by_role("dialog").get_by_label("The name is", exact=True).select_option("PREFIXED")
    login.get_by_role("button", name="Continue").click()
    expect(login.get_by_text("Choose from Read, Write")).to_be_visible()
    login.get_by_role("dialog").get_by_label("Read", exact=True).check()
    login.get_by_role("dialog").get_by_label("Describe", exact=True).check()
    login.get_by_role("button", name="Continue").click()
    words = shown_command(login, secured[1])
    assert words[:2] == ["ottla", "acls"] and "User:carol smith" in words
    assert accessibility_findings(login) == []
    login.get_by_role("button", name="Add", exact=True).click()
    row = login.get_by_role("row").filter(has_text="User:carol smith").filter(has_text="Read")
    expect(row).to_contain_text("pay.…")
    listed = by_command(secured, "acls", "--list", "--principal", "User:carol smith")
    assert "patternType=PREFIXED" in listed and "operation=READ" in listed
    # The command that was shown finds nothing left to do.
    ottla(*words[1:])
    assert by_command(secured, "acls", "--list", "--principal", "User:carol smith") == listed
    row.get_by_role("button", name="Remove").click()
    words = shown_command(login, secured[1])
    login.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(row).to_have_count(0)
    listed = by_command(secured, "acls", "--list", "--principal", "User:carol smith")
    assert "operation=READ" not in listed and "operation=DESCRIBE" in listed
    assert "--force" in words and words[words.index("--operation") + 1] == "Read"


def test_quotas_and_passwords_are_set_and_removed(
    login: Page, secured: tuple[ProcessCluster, Path]
) -> None:
    login.goto("/rights/quotas")
    log_in(login, ADMIN)
    expect(login.get_by_text("No quota: nobody is slowed down.")).to_be_visible()
    login.get_by_role("button", name="Set a quota").click()
    login.get_by_role("button", name="Continue").click()
    expect(login.get_by_text("Give at least one limit.")).to_be_visible()
    login.get_by_role("dialog").get_by_label("Whose", exact=True).select_option("user client-id")
    login.get_by_role("dialog").get_by_label("User", exact=True).fill("alice")
    login.get_by_role("dialog").get_by_label("Bytes per second produced", exact=True).fill("-1")
    login.get_by_role("button", name="Continue").click()
    login.get_by_role("dialog").get_by_label("Bytes per second produced", exact=True).fill(
        "1048576"
    )
    login.get_by_role("button", name="Continue").click()
    words = shown_command(login, secured[1])
    assert words[-5:] == [
        "--user", "alice", "--client-defaults", "--add-config", "producer_byte_rate=1048576",
    ]  # fmt: skip
    login.get_by_role("button", name="Set", exact=True).click()
    row = login.get_by_role("row").filter(has_text="alice")
    expect(row).to_contain_text("1 MB/s")
    described = by_command(
        secured, "configs", "--describe", "--entity-type", "users", "--entity-type", "clients"
    )
    assert "producer_byte_rate=1048576.0" in described
    row.get_by_role("button", name="Remove").click()
    login.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(row).to_have_count(0)
    login.get_by_role("link", name="Users").click()
    login.get_by_role("button", name="Set a password").click()
    login.get_by_role("dialog").get_by_label("User", exact=True).fill("dora")
    login.get_by_role("dialog").get_by_label("Mechanism", exact=True).select_option("SCRAM-SHA-256")
    login.get_by_role("dialog").get_by_label("Password", exact=True).fill("dora's own")
    login.get_by_role("button", name="Continue").click()
    assert shown_command(login, secured[1])[-1] == "SCRAM-SHA-256=[iterations=8192]"
    assert "dora's own" not in login.locator("body").inner_text()
    login.get_by_role("button", name="Set", exact=True).click()
    expect(login.get_by_role("row").filter(has_text="dora")).to_contain_text("8,192")
    login.get_by_role("button", name="Log out").click()
    log_in(login, "dora", "dora's own", "SCRAM-SHA-256")
    expect(login.get_by_role("alert").filter(has_text="dora may not")).to_be_visible()


def test_a_cluster_without_an_authorizer(page: Page) -> None:
    page.goto("/rights")
    expect(page.get_by_text("authorizer.class.name=")).to_be_visible()
    assert page.get_by_role("alert").count() == 0
    page.set_viewport_size(PHONE)
    page.get_by_role("link", name="Quotas").click()
    expect(page.get_by_role("button", name="Set a quota")).to_be_visible()
    assert sideways_overflow(page) == 0
    assert accessibility_findings(page) == []


def test_read_only_shows_the_command_and_does_nothing(
    browser: Browser, secured: tuple[ProcessCluster, Path]
) -> None:
    cluster, file = secured
    options = ("--command-config", str(file), "--read-only")
    with (
        running_console(cluster.bootstrap_servers, *options) as address,
        browser.new_context(viewport=WIDE, base_url=address) as context,
    ):
        page = context.new_page()
        page.goto("/rights/users")
        log_in(page, ADMIN)
        expect(page.get_by_text("read-only")).to_be_visible()
        page.get_by_role("button", name="Set a password").click()
        page.get_by_role("dialog").get_by_label("User", exact=True).fill("eve")
        page.get_by_role("dialog").get_by_label("Password", exact=True).fill("x")
        page.get_by_role("button", name="Continue").click()
        expect(page.get_by_role("button", name="Set", exact=True)).to_be_disabled()
        expect(page.get_by_text("This console is read-only")).to_be_visible()
