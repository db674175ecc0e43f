// What this browser remembers for the page; one that keeps nothing is no reason to fail.
export function recall(key, otherwise) {
  try {
    const text = localStorage.getItem(`holdfast.${key}`);
    return text === null ? otherwise : JSON.parse(text);
  } catch {
    return otherwise;
  }
}

/** True if it is kept. A full store keeps what it had. */
export function remember(key, value) {
  try {
    localStorage.setItem(`holdfast.${key}`, JSON.stringify(value));
    return true;
  } catch {
    return false;
  }
}

export function recallText(key, otherwise) {
  try {
    return localStorage.getItem(`holdfast.${key}`) ?? otherwise;
  } catch {
    return otherwise;
  }
}

export function rememberText(key, text) {
  try {
    if (text) localStorage.setItem(`holdfast.${key}`, text);
    else localStorage.removeItem(`holdfast.${key}`);
  } catch {
    // Shown for as long as the page is open.
  }
}

export function forget(key) {
  try {
    localStorage.removeItem(`holdfast.${key}`);
  } catch {
    // Then there is nothing to forget.
  }
}

/** The values of all keys that begin so. */
export function recallAll(prefix) {
  try {
    const keys = Object.keys(localStorage).filter((key) => key.startsWith(`holdfast.${prefix}`));
    return keys.map((key) => recall(key.slice("holdfast.".length), null)).filter(Boolean);
  } catch {
    return [];
  }
}
