"""AWS keys that sign requests (Signature Version 4), from the places that AWS's own tools use.

A key in the environment stays the same; the file with a key is read again when it changes. Keys that programs and
metadata services issue are renewed.
"""

import configparser
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from loadframe.base.errors import BadInput
from loadframe.base.untrusted import read_input
from loadframe.cluster import aws_issued
from loadframe.store.access import Auth, Aws

#: Hosts of AWS's search services: REGION.es.amazonaws.com, REGION.aoss.amazonaws.com, aos.REGION.on.aws.
_HOSTS = (
    re.compile(r"\.(?P<region>[a-z0-9-]+)\.(?P<service>es|aoss)\.amazonaws\.com(\.cn)?$"),
    re.compile(r"\.(?P<service>aos)\.(?P<region>[a-z0-9-]+)\.on\.aws$"),
)
#: Name in signatures by name in hosts.
_SIGNED_AS = {"es": "es", "aos": "es", "aoss": "aoss"}
_NAME = re.compile(r"[a-z0-9-]+")
_MAX_SIZE = 1 << 20
#: Keys of profiles with AWS keys from other programs or services.
_ISSUED = ("role_arn", "sso_session", "sso_start_url", "web_identity_token_file", "login_session")


@dataclass(frozen=True)
class AwsOptions:
    """The options for signatures, and the `host:port`s of the cluster."""

    service: str | None
    region: str | None
    profile: str | None
    addresses: Sequence[str] = ()

    @property
    def given(self) -> str | None:
        """The first of these options on the command line, or None."""
        options = {"service": self.service, "region": self.region, "profile": self.profile}
        return next((f"--aws-{name}" for name, value in options.items() if value is not None), None)


def sign(options: AwsOptions, check: Callable[[Path], None], environment: Mapping[str, str]) -> Auth:
    """Return the credentials that sign requests to the service; BadInput if service, region or key are unknown.

    `check` receives the file with the key.
    """
    named = options.profile or ("AWS_ACCESS_KEY_ID" not in environment and environment.get("AWS_PROFILE")) or None
    if named:
        _require_profile(named, environment)
    profile = options.profile or environment.get("AWS_PROFILE") or "default"
    service, region = _scope(options, profile, environment)
    if options.profile is None and "AWS_ACCESS_KEY_ID" in environment:
        secret = environment.get("AWS_SECRET_ACCESS_KEY")
        if not secret:
            raise BadInput("AWS_ACCESS_KEY_ID is set without AWS_SECRET_ACCESS_KEY", remedy="set both, or neither")
        token = environment.get("AWS_SESSION_TOKEN") or None
        return Auth("aws", secret, environment["AWS_ACCESS_KEY_ID"], aws=Aws(service, region, "", token))
    file = _key_file(environment)
    section = _sections(file).get(profile)
    if section is None or "aws_access_key_id" not in section or "aws_secret_access_key" not in section:
        key, place = _issued(profile, named is not None, file, section, environment)
        return Auth(
            "aws", key.secret, key.access_key, file=place, aws=Aws(service, region, aws_issued.PROFILE, key.token)
        )
    check(file)
    aws = Aws(service, region, profile, section.get("aws_session_token"))
    return Auth("aws", section["aws_secret_access_key"], section["aws_access_key_id"], file=file, aws=aws)


def _issued(
    profile: str, named: bool, file: Path, section: Mapping[str, str] | None, environment: Mapping[str, str]
) -> tuple[aws_issued.Key, Path]:
    """Return a key that a program or service issues, and its file; BadInput without one.

    Only without a `named` profile are the container service and the instance metadata asked, as by AWS's tools.
    """
    configured = {**_configured(profile, environment), **(section or {})}
    if command := configured.get("credential_process"):
        where = str(_config_file(environment) if command not in (section or {}).values() else file)
        return aws_issued.issued(f"program {profile} {where}", aws_issued.of_program(command, where))
    if named or any(key in configured for key in _ISSUED):
        raise _no_key(profile, file, section, environment)
    if fetch := aws_issued.of_container(environment):
        return aws_issued.issued("container", fetch)
    fetch, endpoint = aws_issued.of_instance(environment)
    try:
        return aws_issued.issued(f"instance {endpoint}", fetch)
    except aws_issued.NoMetadata:
        error = _no_key(profile, file, section, environment)
        what = f"{error.what}; there is no EC2 instance metadata at {endpoint}"
        raise BadInput(what, where=error.where, remedy=error.remedy) from None


def _scope(options: AwsOptions, profile: str, environment: Mapping[str, str]) -> tuple[str, str]:
    """Return service and region; BadInput if they are unknown or invalid."""
    names = [address.rpartition(":")[0] for address in options.addresses]
    host = next((match for name in names for known in _HOSTS if (match := known.search(name))), None)
    service = options.service or (host and _SIGNED_AS[host["service"]])
    region = (
        options.region
        or (host and host["region"])
        or environment.get("AWS_REGION")
        or environment.get("AWS_DEFAULT_REGION")
        or _configured(profile, environment).get("region")
    )
    if not service:
        raise BadInput(
            "requests cannot be signed without the service's name",
            where=", ".join(options.addresses),
            remedy="give --aws-service: es for OpenSearch Service, aoss for OpenSearch Serverless",
        )
    if not region:
        raise BadInput(
            "requests cannot be signed without a region",
            where=", ".join(options.addresses),
            remedy="give --aws-region, or set AWS_REGION",
        )
    for option, value in (("--aws-service", service), ("--aws-region", region)):
        if not _NAME.fullmatch(value):
            raise BadInput(
                f"{option} must consist of a to z, 0 to 9 and -; got {value!r}",
                remedy="for example es, and eu-central-1",
            )
    return service, region


def _no_key(profile: str, file: Path, section: Mapping[str, str] | None, environment: Mapping[str, str]) -> BadInput:
    issued = {**_configured(profile, environment), **(section or {})}
    if any(key in issued for key in _ISSUED):
        return BadInput(
            f"the key of the AWS profile {profile} is issued by another service, which Loadframe does not ask",
            where=str(file),
            remedy=f'export it: eval "$(aws configure export-credentials --profile {profile} --format env)", and leave '
            "--aws-profile out; or make the command, with --format process, the credential_process of another profile",
        )
    lacking = "has no key" if section is not None else "is not in the file" if file.exists() else "has no file"
    return BadInput(
        f"no AWS key: the environment lacks AWS_ACCESS_KEY_ID, and the profile {profile} {lacking}",
        where=str(file),
        remedy="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give --aws-profile",
    )


def _key_file(environment: Mapping[str, str]) -> Path:
    return Path(environment.get("AWS_SHARED_CREDENTIALS_FILE") or "~/.aws/credentials").expanduser().absolute()


def _config_file(environment: Mapping[str, str]) -> Path:
    return Path(environment.get("AWS_CONFIG_FILE") or "~/.aws/config").expanduser().absolute()


def _require_profile(profile: str, environment: Mapping[str, str]) -> None:
    """Refuse a profile that is neither in the credentials file nor in the config file."""
    file, config = _key_file(environment), _config_file(environment)
    known = {*_sections(file), *(name.removeprefix("profile ") for name in _sections(config))}
    if profile in known:
        return
    missing = "" if file.exists() else ", which does not exist"
    there = f"choose one of: {', '.join(sorted(known))}" if known else f"neither {file} nor {config} has a profile"
    raise BadInput(
        f"unknown AWS profile {profile}",
        where=f"{file}{missing}",
        remedy=f"{there}; or leave --aws-profile and AWS_PROFILE out, and set AWS_ACCESS_KEY_ID and"
        " AWS_SECRET_ACCESS_KEY",
    )


def _configured(profile: str, environment: Mapping[str, str]) -> Mapping[str, str]:
    """Return the settings of a profile in AWS's config file; empty if it has none."""
    return _sections(_config_file(environment)).get("default" if profile == "default" else f"profile {profile}", {})


def _sections(file: Path) -> dict[str, dict[str, str]]:
    """Return the sections of an INI file; empty if the file does not exist. BadInput if it cannot be read."""
    if not file.exists():
        return {}
    parser = configparser.RawConfigParser(default_section="", strict=False)
    try:
        parser.read_string(read_input(file, _MAX_SIZE).decode())
    except (configparser.Error, UnicodeDecodeError):
        # The parser's message quotes lines, which may be secrets.
        raise BadInput("the file is not an AWS profile file", where=str(file), remedy="see `aws configure`") from None
    return {name: dict(parser[name]) for name in parser.sections()}
