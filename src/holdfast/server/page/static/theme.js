// The chosen theme, set before the first paint so that nothing flashes.
(() => {
  try {
    const chosen = localStorage.getItem("holdfast.theme");
    if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  } catch {
    // A browser that keeps nothing for this page shows the system's theme.
  }
})();
