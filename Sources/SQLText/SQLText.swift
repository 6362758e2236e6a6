// SQLText
