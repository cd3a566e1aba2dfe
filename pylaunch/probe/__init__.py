"""The one probe: asks every host at once what it looks like. Judging the answers is for those who asked."""
