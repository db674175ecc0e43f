"""The browser of the page tests and how it is started."""

CHROMIUM = "/usr/bin/chromium"
CHROMIUM_OPTIONS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-dev-shm-usage",
)
