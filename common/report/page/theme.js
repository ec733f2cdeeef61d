'use strict';
// Light, dark or as the system has it; in the head, so that the page never shows in the wrong one.
(() => {
  const root = document.documentElement;
  let kept = '';
  try { kept = localStorage.getItem('poolmark-theme') || ''; } catch (_) { /* a page from a file may have no storage */ }
  const apply = (theme) => {
    if (theme === 'light' || theme === 'dark') root.dataset.theme = theme; else delete root.dataset.theme;
    dispatchEvent(new Event('poolmark-theme'));
  };
  apply(kept);
  addEventListener('DOMContentLoaded', () => {
    const select = document.getElementById('theme');
    if (!select) return;
    select.closest('label').hidden = false;
    select.value = root.dataset.theme || '';
    select.addEventListener('change', () => {
      apply(select.value);
      try { localStorage.setItem('poolmark-theme', select.value); } catch (_) { /* then for this page only */ }
    });
  });
})();
