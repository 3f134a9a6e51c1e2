export function settled(
  left: () => Promise<boolean>,
  patienceMs?: number,
): Promise<{ at: number; looks: number }>;
