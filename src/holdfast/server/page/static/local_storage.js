// Access to localStorage, which may be full or disabled.
export function recall(key, otherwise) {
  try {
    const text = localStorage.getItem(`holdfast.${key}`);
    return text === null ? otherwise : JSON.parse(text);
  } catch {
    return otherwise;
  }
}

/** True if it was saved. A full storage keeps the old value. */
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
    // It is lost when the page is closed.
  }
}

export function forget(key) {
  try {
    localStorage.removeItem(`holdfast.${key}`);
  } catch {
    // Without storage there is nothing to remove.
  }
}

/** The values of all keys with this prefix. */
export function recallAll(prefix) {
  try {
    const keys = Object.keys(localStorage).filter((key) => key.startsWith(`holdfast.${prefix}`));
    return keys.map((key) => recall(key.slice("holdfast.".length), null)).filter(Boolean);
  } catch {
    return [];
  }
}
