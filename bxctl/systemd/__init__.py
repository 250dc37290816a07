"""The box as units of systemd: what each daemon sees (`view`), how it is shut in (`hardening`), the files (`units`)."""
