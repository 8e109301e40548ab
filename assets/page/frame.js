// On a phone the sidebar covers the page: close it once a link in it was followed.
const PHONE = "(max-width: 768px)";
const MARK = "__tickscopeSidebar";

function closeAfterLink(event) {
  if (!window.matchMedia(PHONE).matches) return;
  const link = event.target.closest('[data-testid="stSidebar"] a[data-testid="stPageLink-NavLink"]');
  if (!link) return;
  const button = document.querySelector('[data-testid="stSidebarCollapseButton"] button');
  if (button) setTimeout(() => button.click(), 0);
}

export default function () {
  // One listener a window, whichever page mounted first; a newer script replaces an older one.
  if (window[MARK]) document.removeEventListener("click", window[MARK], true);
  window[MARK] = closeAfterLink;
  document.addEventListener("click", closeAfterLink, true);
}
