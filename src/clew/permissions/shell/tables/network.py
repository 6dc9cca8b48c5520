"""Programs that send files to other machines and fetch them."""

from clew.permissions.shell.arguments import Operands, Program, letters
from clew.permissions.shell.programs import word_set

NETWORK: dict[str, Program] = {
    "curl": Program(
        addresses=True,
        flags=letters("0123464aBfgGIijklLMnNOpqRsSvVZJ#:")
        | word_set("""
            --silent --show-error --fail --location --head --include --insecure --verbose --get
            --compressed --http1.1 --http2 --remote-name --remote-header-name --globoff --ipv4
            --ipv6 --netrc --parallel --fail-with-body --no-progress-meter --progress-bar
        """),
        values=letters("XuAmeCQrtUxyYzP")
        | word_set("""
            --request --user --user-agent --max-time --connect-timeout --referer --retry
            --retry-delay --range --proxy --resolve --connect-to --interface --limit-rate
            --max-filesize --max-redirs --proxy-user --quote --ciphers --tls-max
        """),
        reads=letters("TEb")
        | word_set("""
            --upload-file --cert --key --cacert --capath --cookie --netrc-file --pubkey --crlfile
            --proxy-cert --proxy-key --etag-compare
        """),
        reads_after_at=letters("dFHw")
        | word_set("""
            --data --data-ascii --data-binary --data-raw --data-urlencode --json --form --header
            --url-query --proxy-header --write-out --form-string --variable --expand-data
        """),
        writes=letters("oDc")
        | word_set("""
            --output --dump-header --cookie-jar --trace --trace-ascii --stderr --etag-save
            --libcurl --hsts --alt-svc
        """),
        folders=word_set("--output-dir"),
        # A settings file can contain every other option.
        executes=word_set("-K --config"),
    ),
    "wget": Program(
        addresses=True,
        flags=letters("bcdFhkKmNpqrSvVxEHL46")
        | word_set("--quiet --continue --recursive --no-verbose --no-check-certificate --spider"),
        values=letters("tTwUQlARDIXBn")
        | word_set("""
            --tries --timeout --wait --user-agent --header --user --password --method --level
            --accept --reject --post-data --body-data --referer --limit-rate
        """),
        reads=word_set("--post-file --body-file --load-cookies --certificate --private-key"),
        lists=word_set("-i --input-file"),
        writes=letters("Ooa")
        | word_set("--output-document --output-file --append-output --save-cookies --warc-file"),
        folders=word_set("-P --directory-prefix"),
        executes=word_set("-e --execute --use-askpass --config"),
        writes_tree=".",
    ),
    "rsync": Program(
        operands=Operands.LAST_WRITTEN,
        hosts=True,
        flags=letters("vqcaRbuLkKHpEAXogDtOJUNSnWxzhPi8s")
        | word_set("""
            --verbose --quiet --checksum --archive --relative --update --links --perms --times
            --dry-run --delete --delete-after --delete-excluded --progress --stats --inplace
            --human-readable --partial --compress --existing --ignore-existing --size-only
        """),
        values=letters("BfM@")
        | word_set("""
            --exclude --include --filter --chmod --bwlimit --timeout --port --suffix --max-size
            --min-size --info --out-format --block-size --modify-window --compare-dest
        """),
        reads=word_set("--exclude-from --include-from --password-file --read-batch"),
        lists=word_set("--files-from"),
        writes=word_set("--log-file --write-batch --only-write-batch"),
        folders=word_set("-T --temp-dir --backup-dir --partial-dir"),
        modifies=word_set("--remove-source-files"),
        executes=word_set("-e --rsh --rsync-path --config"),
        recurses=letters("ra") | word_set("--recursive --archive"),
        follows=letters("LkK") | word_set("--copy-links --copy-dirlinks --copy-unsafe-links"),
        recursive=True,
        writes_beside=True,
    ),
    "scp": Program(
        operands=Operands.LAST_WRITTEN,
        hosts=True,
        flags=letters("346ABCOpqRTv"),
        values=letters("cJlPX"),
        reads=letters("i"),
        executes=letters("SoFD"),
        recurses=letters("r"),
        follows_always=True,
    ),
}
