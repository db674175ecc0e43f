// The chosen theme, set before the first paint so that nothing flashes.
(() => {
  try {
    const chosen = localStorage.getItem("holdfast.theme");
    if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  } catch {
    // Without storage, the theme of the system is used.
  }
})();
